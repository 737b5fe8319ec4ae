import { randomBytes, randomInt } from 'node:crypto'

const ADJECTIVES = (
  'amber ancient autumn azure balmy blue bold brave breezy bright broad calm clear cloudless cool sunny crisp curly ' +
  'dawning deep dewy distant drifting early east ebbing endless evening faint fair foggy fresh gentle glassy golden ' +
  'hazy hidden humble idle jolly keen late light lively lucky lunar mellow misty morning mossy north pale pearly ' +
  'placid quiet rolling salty sandy silver smooth snowy soft starry warm'
).split(' ')
const NOUNS = (
  'anchor bank bay beach bird boat breeze buoy cape cliff cloud coast cod coral cove crab creek current ' +
  'delta dolphin dune eddy estuary fern fjord foam forest gull harbor heron horizon inlet island kelp ' +
  'lagoon lake lantern marsh meadow mist moon otter pearl pebble pier pine plover pond puffin reed reef ' +
  'ripple river rock sail salmon seal shell shoal shore star tern tide wave'
).split(' ')
const ALPHANUMERIC = 'abcdefghijklmnopqrstuvwxyz0123456789'

/** A project id, like `calm-harbor-04812773`. */
export function newProjectId(): string {
  return `${words()}-${randomInt(1e8).toString().padStart(8, '0')}`
}

/** A branch id, like `br-misty-cove-3kx09wq1`. */
export function newBranchId(): string {
  return `br-${words()}-${suffix()}`
}

/** A snapshot id, like `snap-misty-cove-3kx09wq1`. */
export function newSnapshotId(): string {
  return `snap-${words()}-${suffix()}`
}

/** An endpoint id, like `ep-silver-tide-7am2c0zz`: the first label of its host name. */
export function newEndpointId(): string {
  return `ep-${words()}-${suffix()}`
}

/** An organization id, like `org-calm-harbor-04812773`. */
export function newOrganizationId(): string {
  return `org-${newProjectId()}`
}

/** An operation id: a UUID v7. */
export function newOperationId(): string {
  return newUuid()
}

/** The id of one request, in its reply and in the log: a UUID v7. */
export function newRequestId(): string {
  return newUuid()
}

let stock = Buffer.alloc(0)

/** From a buffer, since a call for few random bytes costs as much as one for many, and each request has an id. */
function sixteenRandomBytes(): Buffer {
  if (stock.length === 0) stock = randomBytes(4096)
  const bytes = stock.subarray(0, 16)
  stock = stock.subarray(16)
  return bytes
}

let lastMs = 0
let counter = 0

/**
 * A UUID v7 (RFC 9562, section 5.7) that sorts after all earlier ones of this process, even when the clock steps back.
 */
export function newUuid(): string {
  const bytes = sixteenRandomBytes()
  const now = Date.now()
  if (now > lastMs) {
    lastMs = now
    counter = bytes.readUInt16BE(6) & 0x7ff
  } else if (counter < 0xfff) {
    counter += 1
  } else {
    lastMs += 1
    counter = 0
  }
  bytes.writeUIntBE(lastMs, 0, 6)
  bytes.writeUInt16BE(0x7000 | counter, 6)
  bytes.writeUInt8(0x80 | (bytes.readUInt8(8) & 0x3f), 8)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

function words(): string {
  return `${pick(ADJECTIVES)}-${pick(NOUNS)}`
}

/** Eight characters, the first a digit, so that no id can contain `-pooler`, the mark of pooled host names. */
function suffix(): string {
  return randomInt(10) + Array.from({ length: 7 }, () => pick(ALPHANUMERIC)).join('')
}

function pick(from: string | readonly string[]): string {
  return from[randomInt(from.length)] ?? ''
}

/** The UUID before all of version 7 of a time in milliseconds and later. */
export function firstUuidOf(ms: number): string {
  const hex = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}
