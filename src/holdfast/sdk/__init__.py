"""What users import: the application with its tasks, and handles on what was started."""
