/**
 * A text as one word of a shell. Control characters, which names of roles and databases may hold, are octal escapes
 * (POSIX.1-2024, section 2.2.4): pasted as they are, a terminal would obey them, such as one that erases the line.
 */
export function shellWord(text: string): string {
  if (/^[\w./:=,@%+-]+$/.test(text)) return text
  if (/\p{Cc}/u.test(text)) return `$'${text.replaceAll(/[\\']/g, '\\$&').replaceAll(/\p{Cc}/gu, octal)}'`
  return `'${text.replaceAll("'", `'\\''`)}'`
}

const octal = (character: string): string =>
  [...new TextEncoder().encode(character)].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')
