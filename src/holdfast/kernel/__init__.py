"""What a task is: the only room that speaks SQL about tasks."""
