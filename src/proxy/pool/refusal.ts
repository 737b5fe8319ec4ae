/** Statements that make no sense where each transaction may run in another session, by how they begin. */
const REFUSED = /^\s*(listen|unlisten)\b/i
/** So much of a text tells. */
const TELLING_BYTES = 64

const HINT = 'Connect to the host name without -pooler.'

/**
 * The text to run in the place of one that pooling cannot do: it fails with an error that says so, in its place in the conversation and
 * with the effect on the transaction that an error has. Nothing for all other texts; `unknown` while too little has come to tell.
 * @param at where the text begins, and `end` where its message is over, be it behind what has come
 */
export function refusal(bytes: Buffer, at: number, end: number): Buffer | 'unknown' | undefined {
  if (!mayBe(bytes, at)) return undefined
  const command = REFUSED.exec(bytes.toString('latin1', at, at + TELLING_BYTES))?.[1]?.toUpperCase()
  if (command === undefined) return bytes.length < Math.min(end, at + TELLING_BYTES) ? 'unknown' : undefined
  if (bytes.length < end) return 'unknown'
  return Buffer.from(
    `DO $neap$ BEGIN RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = '${command} is not supported on a pooled connection', HINT = '${HINT}'; END $neap$`,
  )
}

/** By its first letter that is no white space: a look that costs next to nothing. */
function mayBe(bytes: Buffer, at: number): boolean {
  let letter = at
  while (bytes[letter] === 0x20 || isControl(bytes[letter] ?? 0)) letter++
  const lower = (bytes[letter] ?? 0) | 0x20
  return lower === 0x6c || lower === 0x75
}

/** Tab, line feed, vertical tab, form feed, carriage return. */
const isControl = (byte: number): boolean => byte >= 9 && byte <= 13
