-- signature.sql: what failures have in common, so that a person sees a hundred equal ones as one.
-- Called by the move that fails. What differs from task to task is left out of the message: numbers, ids, times, names of
-- files, addresses of people, and what stands in quotes. Failures are distinguished by a plain word in quotes, which names a
-- field or a key, by the code of an error, and by the server or folder that an address begins with.

create or replace function holdfast.signature(p_lifecycle text, p_name text, p_error jsonb) returns text
language sql immutable
as $$
  select concat_ws(' · ', nullif(p_lifecycle, p_name), p_name, p_error ->> 'step', p_error ->> 'category',
    p_error ->> 'code', left(holdfast.normalize_message(coalesce(p_error ->> 'message', p_error ->> 'kind', '')), 200))
$$;

-- A message without what differs from task to task. Only its beginning: messages may be long, and patterns cost.
create or replace function holdfast.normalize_message(p_message text) returns text
language plpgsql immutable
as $$
declare
  v_text text := left(p_message, 1000);
begin
  -- Addresses: the server stays, who asks and for what does not.
  v_text := regexp_replace(v_text, '([a-zA-Z][a-zA-Z0-9+.-]*://)(?:[^\s/@"''<>]*@)?([^\s/?#"''<>]*)[^\s"''<>,;)]*',
                           '\1\2/*', 'g');
  v_text := regexp_replace(v_text, '[^\s@"''<>(),;:=]+@[^\s@"''<>(),;:=]+\.[a-zA-Z]+', '<mail>', 'g');
  -- A plain word keeps its quotes as signs that no message holds, while those around anything else are found.
  v_text := regexp_replace(v_text, '"([a-z_][a-z_.]*)"', E'\x01\\1\x01', 'g');
  v_text := regexp_replace(v_text, '(?<![a-zA-Z0-9])''([a-z_][a-z_.]*)''', E'\x02\\1\x02', 'g');
  v_text := regexp_replace(v_text, '`([a-z_][a-z_.]*)`', E'\x03\\1\x03', 'g');
  v_text := regexp_replace(v_text, '"[^"]*"', '"?"', 'g');
  v_text := regexp_replace(v_text, '(?<![a-zA-Z0-9])''[^'']*''', '''?''', 'g');
  v_text := regexp_replace(v_text, '`[^`]*`', '`?`', 'g');
  v_text := translate(v_text, E'\x01\x02\x03', '"''`');
  v_text := regexp_replace(v_text, '(?:(?<![a-zA-Z])[a-zA-Z]:)?[^\s"''`<>|=(,;:]+'
    '\.(?:pdf|csv|tsv|jsonl?|xlsx?|docx?|pptx?|txt|md|html?|xml|ya?ml|png|jpe?g|gif|tiff?|webp'
    '|svg|wav|mp[34]|flac|ogg|zip|gz|tar|zst|parquet|avro|log|bin|eml)(?![a-zA-Z0-9])', '<file>', 'gi');
  v_text := regexp_replace(v_text, '(?<![\w.<*/:])((?:[a-zA-Z]:)?[/\\][^\s/\\"''`<>|:,;()]+)[/\\][^\s"''`<>|:,;()]*',
                           '\1/*', 'g');
  -- Ids: of hexadecimal digits with or without dashes, or of letters and digits, too long and too mixed for a word.
  v_text := regexp_replace(v_text, '(?<![a-zA-Z0-9])(?:0x[0-9a-fA-F]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}'
    '|(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}|(?=[a-zA-Z]*[0-9][a-zA-Z]*[0-9])[a-zA-Z0-9]{12,})(?![a-zA-Z0-9])', '#', 'g');
  -- Numbers, but for those that say what went wrong.
  v_text := regexp_replace(v_text, '(?<![0-9])(?<!\m(?:errno|http|status|code)[ :=]{1,2})(?:(?<![a-z0-9)])-)?'
    '[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?', '#', 'gi');
  v_text := regexp_replace(v_text, '#(?:(?:[-.:,/_+T]|, | and )#)+', '#', 'g');
  return btrim(regexp_replace(v_text, '\s+', ' ', 'g'));
end $$;
