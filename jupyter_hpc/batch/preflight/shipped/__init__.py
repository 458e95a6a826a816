"""What runs on the cluster before a job is queued."""
