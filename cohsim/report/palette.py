"""Colours of the time categories and levels, the same in every picture and page.

Related categories have related hues: green executes, blue is the CPU's own caches, orange to red is another CPU's doing, violet is the home, brown
is DRAM, yellow is ordering. Hues were chosen to stay apart on white and on black paper and for the common colour-blindnesses;
no picture relies on colour alone (legends, order and numbers say the same).
"""

from __future__ import annotations

CATEGORY_COLOURS = {
    "issue": "#3f9b5f",
    "l1": "#8fc1e8",
    "l2": "#4a90c8",
    "cluster": "#f4b266",
    "home": "#9a7fd1",
    "remote_clean": "#ec8f3c",
    "remote_dirty": "#d9642c",
    "upgrade": "#c98a5e",
    "memory": "#8c6448",
    "store_buffer": "#2f6c97",
    "atomic": "#d3a518",
    "retry": "#c0392b",
    "fence": "#a89a3b",
    "spin": "#c2569b",
    "idle": "#b9bec4",
}

LEVEL_COLOURS = {**{k: CATEGORY_COLOURS[k] for k in ("l1", "l2", "cluster", "home", "remote_clean", "remote_dirty", "upgrade", "memory")},
                 "forward": "#6aa6a6"}

FIRST, SECOND = "#1f5fa8", "#d1701c"
"""Two things compared: before and after, emulated and measured."""

HEAT = "YlOrRd"
"""matplotlib colour map of heat maps: pale is little."""
