"""What runs the stages: the Spark session, its JARs, its errors, the CPU time used."""
