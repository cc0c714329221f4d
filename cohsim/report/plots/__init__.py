"""Pictures of results, sweeps and machines. Each drawing takes data and returns a matplotlib figure; ``canvas.save`` writes it."""
