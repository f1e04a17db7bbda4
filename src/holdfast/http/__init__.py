"""What every route needs: who calls, how an error is answered, an id for each request."""
