"""How fast bohb is: CPU time of ask and tell, trials per second, resuming, the command line and the dashboard."""
