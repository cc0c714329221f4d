"""Parts of the native core; all of them are compiled into ``cohsim._core``."""
