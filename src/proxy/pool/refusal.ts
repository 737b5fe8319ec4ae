/** Statements that cannot work when each transaction may run in another session, by their first word. */
const REFUSED = /^\s*(listen|unlisten)\b/i
/** Bytes of a text that suffice to recognize such a statement. */
const CHECKED_BYTES = 64

const HINT = 'Connect to the host name without -pooler.'

/**
 * The text that replaces a statement which pooling does not support. It raises an error at that position of the
 * conversation, with the effect on the transaction that an error has. Returns undefined for all other texts, and
 * `unknown` while too few bytes have come.
 * @param at where the text begins; `end` is where its message ends, possibly beyond the received bytes
 */
export function refusal(bytes: Buffer, at: number, end: number): Buffer | 'unknown' | undefined {
  if (!mayBe(bytes, at)) return undefined
  const command = REFUSED.exec(bytes.toString('latin1', at, at + CHECKED_BYTES))?.[1]?.toUpperCase()
  if (command === undefined) return bytes.length < Math.min(end, at + CHECKED_BYTES) ? 'unknown' : undefined
  if (bytes.length < end) return 'unknown'
  return Buffer.from(
    "DO $neap$ BEGIN RAISE EXCEPTION USING ERRCODE = '0A000', " +
      `MESSAGE = '${command} is not supported on a pooled connection', HINT = '${HINT}'; END $neap$`,
  )
}

/** A cheap check of the first letter that is no white space. */
function mayBe(bytes: Buffer, at: number): boolean {
  let letter = at
  while (bytes[letter] === 0x20 || isControl(bytes[letter] ?? 0)) letter++
  const lower = (bytes[letter] ?? 0) | 0x20
  return lower === 0x6c || lower === 0x75
}

/** Tab, line feed, vertical tab, form feed, carriage return. */
const isControl = (byte: number): boolean => byte >= 9 && byte <= 13
