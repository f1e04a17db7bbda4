# noqa: A005 - named after the room whose promises it holds
