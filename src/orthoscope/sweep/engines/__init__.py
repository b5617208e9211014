"""What carries a job to a process: all speak `concurrent.futures`, none of them is trusted with a result."""
