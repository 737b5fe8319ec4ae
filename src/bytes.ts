const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']

/** A part of an amount of bytes, both in the unit of the whole: "9.0 of 10.0 GiB". */
export function partOfBytes(part: number, whole: number): string {
  const power = powerOf(whole)
  return `${inUnit(part, power)} of ${inUnit(whole, power)} ${UNITS[power]}`
}

/** An amount of bytes in its largest unit: "9.5 GiB". */
export function bytesText(bytes: number): string {
  const power = powerOf(bytes)
  return `${inUnit(bytes, power)} ${UNITS[power]}`
}

const powerOf = (bytes: number): number => Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log2(bytes) / 10)))

const inUnit = (bytes: number, power: number): string => (bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1)
