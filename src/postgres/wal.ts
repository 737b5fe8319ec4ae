/**
 * Positions in the WAL, as bytes from its beginning, and the names of the segments that hold them (Postgres manual,
 * "WAL Internals"; xlog_internal.h). Segments have 16 MiB, as initdb makes them.
 */

export const SEGMENT_BYTES = 2 ** 24
const SEGMENTS_PER_LOG = 2 ** 32 / SEGMENT_BYTES

/** The position at which a segment begins. */
export function segmentPosition(name: string): number {
  return (parseInt(name.slice(8, 16), 16) * SEGMENTS_PER_LOG + parseInt(name.slice(16), 16)) * SEGMENT_BYTES
}

/** The beginning of the segment that holds a position. */
export const segmentStart = (position: number): number => position - (position % SEGMENT_BYTES)

/** The timeline of a segment, as it begins its name: 8 digits. */
export const timelineOf = (name: string): string => name.slice(0, 8)

/** The name of the segment of a timeline with this position. */
export function segmentAt(timeline: string, position: number): string {
  const segment = Math.floor(position / SEGMENT_BYTES)
  return timeline + hex(Math.floor(segment / SEGMENTS_PER_LOG)) + hex(segment % SEGMENTS_PER_LOG)
}

/** The segment that follows another on its timeline. */
export const nextSegment = (name: string): string => segmentAt(timelineOf(name), segmentPosition(name) + SEGMENT_BYTES)

/** A position as Postgres writes it ("0/3000028"). */
export const lsnText = (position: number): string =>
  `${Math.floor(position / 2 ** 32).toString(16)}/${(position % 2 ** 32).toString(16)}`.toUpperCase()

/** The position that Postgres writes so; undefined for text that is no position. */
export function lsnPosition(text: string): number | undefined {
  const [, high, low] = /^([0-9a-f]{1,8})\/([0-9a-f]{1,8})$/i.exec(text) ?? []
  const position = parseInt(high ?? '', 16) * 2 ** 32 + parseInt(low ?? '', 16)
  // Numbers are exact to 2^53, which is 8 PiB of WAL.
  return Number.isSafeInteger(position) ? position : undefined
}

const hex = (part: number): string => part.toString(16).toUpperCase().padStart(8, '0')
