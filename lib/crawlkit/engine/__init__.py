"""What runs the stages: frames of rows, on Spark or on this machine."""
