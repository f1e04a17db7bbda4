-- What was given up, and what is tried again and again: looked for by whoever asks what waits for a person.
create index webhook_delivery_stuck on holdfast.webhook_delivery (webhook_id, id)
  where state = 'failed' or (state = 'pending' and tries > 2);
