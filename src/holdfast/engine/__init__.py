"""What a task is: the only package that speaks SQL about tasks."""
