/** Statements that make no sense where each transaction may run in another session, by how they begin. */
const REFUSED = /^\s*(listen|unlisten)\b/i

const HINT = 'Connect to the host name without -pooler.'

/**
 * The text to run in the place of one that pooling cannot do: it fails with an error that says so, in its place in the conversation and
 * with the effect on the transaction that an error has. Nothing for all other texts.
 */
export function refusal(text: string): string | undefined {
  const command = REFUSED.exec(text)?.[1]?.toUpperCase()
  if (command === undefined) return undefined
  return `DO $neap$ BEGIN RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = '${command} is not supported on a pooled connection', HINT = '${HINT}'; END $neap$`
}

/** Whether a text may be one of them, by its first letter that is no white space: a look that costs next to nothing. */
export function mayBeRefused(bytes: Buffer, at: number): boolean {
  let letter = at
  while (isSpace(bytes[letter])) letter++
  const lower = (bytes[letter] ?? 0) | 0x20
  return lower === 0x6c || lower === 0x75
}

const isSpace = (byte: number | undefined): boolean => byte === 0x20 || (byte !== undefined && byte >= 9 && byte <= 13)
