/** The effect of a statement on its transaction; `other` is every statement that is no transaction command. */
export type TransactionCommand =
  | 'begin'
  | 'commit'
  | 'commit and chain'
  | 'rollback'
  | 'rollback and chain'
  | 'rollback to'
  | 'other'

/**
 * Words that are kept of a statement: more than the longest transaction command has, ROLLBACK TRANSACTION AND NO CHAIN.
 */
const MAX_WORDS = 6

/** Limit of characters that are parsed of a text: a proxy serves no other client meanwhile. */
const MAX_CHARACTERS = 65_536

/** White space and line comments, then the other tokens (Postgres manual, "Lexical Structure"). */
const WHITE = /(?:\s|--[^\n\r]*)+/y
const WORD = /[a-z_\x80-\xff][\w$\x80-\xff]*/iy
const DOLLAR_QUOTE = /\$(?:[a-z_\x80-\xff][\w\x80-\xff]*)?\$/iy
const STRING = /'(?:[^']|'')*(?:'|$)/y
const ESCAPE_STRING = /'(?:[^'\\]|''|\\[^])*(?:'|$)/y
const IDENTIFIER = /"[^"]*(?:"|$)/y

/**
 * The transaction commands of the statements of a text, in order. Empty statements are left out. The rest of a text
 * beyond `MAX_CHARACTERS` counts as one `other`.
 * @param whole with every byte as one character
 * @param hasEscapes whether backslashes escape in plain strings (`standard_conforming_strings` is off)
 */
export function transactionCommands(whole: string, hasEscapes = false): TransactionCommand[] {
  const text = whole.slice(0, MAX_CHARACTERS)
  const commands: TransactionCommand[] = []
  let words: string[] = []
  let isEmpty = true
  let parentheses = 0
  /** The number of open BEGIN ATOMIC and CASE in a function's body, whose semicolons end no statement. */
  let bodies = 0

  function word(found: string): void {
    if (words.length < MAX_WORDS) words.push(found)
    if (words[0] !== 'CREATE') return
    if (found === 'ATOMIC' || (found === 'CASE' && bodies > 0)) bodies++
    else if (found === 'END' && bodies > 0) bodies--
  }

  function statement(): void {
    if (!isEmpty) commands.push(commandOf(words))
    words = []
    isEmpty = true
    parentheses = bodies = 0
  }

  for (let at = 0; at < text.length;) {
    const end = endOfToken(text, at, hasEscapes)
    const token = text.slice(at, end)
    if (token === ';' && parentheses === 0 && bodies === 0) statement()
    else if (!isSpace(token)) {
      isEmpty = false
      if (token === '(') parentheses++
      else if (token === ')') parentheses = Math.max(0, parentheses - 1)
      else if (matches(WORD, text, at) === end) word(token.toUpperCase())
    }
    at = end
  }
  if (whole.length > text.length) commands.push('other')
  else statement()
  return commands
}

const isSpace = (token: string): boolean => /^(?:\s|--|\/\*)/.test(token)

/** The index after the token that begins at `at`; at least `at + 1`. */
function endOfToken(text: string, at: number, hasEscapes: boolean): number {
  const white = matches(WHITE, text, at) ?? endOfComment(text, at)
  if (white !== undefined) return white
  const isEscape = /[eE]/.test(text[at] ?? '') && text[at + 1] === "'"
  if (isEscape) return matches(ESCAPE_STRING, text, at + 1) ?? text.length
  const quote = matches(DOLLAR_QUOTE, text, at)
  if (quote !== undefined) {
    const tag = text.slice(at, quote)
    const closing = text.indexOf(tag, quote)
    return closing < 0 ? text.length : closing + tag.length
  }
  const string = hasEscapes ? ESCAPE_STRING : STRING
  return matches(string, text, at) ?? matches(IDENTIFIER, text, at) ?? matches(WORD, text, at) ?? at + 1
}

function endOfComment(text: string, at: number): number | undefined {
  if (!text.startsWith('/*', at)) return undefined
  let depth = 1
  const mark = /\/\*|\*\//g
  mark.lastIndex = at + 2
  for (let found = mark.exec(text); found; found = mark.exec(text)) {
    depth += found[0] === '/*' ? 1 : -1
    if (depth === 0) return mark.lastIndex
  }
  return text.length
}

function matches(pattern: RegExp, text: string, at: number): number | undefined {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : undefined
}

function commandOf(words: readonly string[]): TransactionCommand {
  const [first = '', second = ''] = words
  if (second === 'PREPARED') return 'other'
  const text = words.join(' ')
  const chains = text.endsWith('AND CHAIN')
  switch (first) {
    case 'BEGIN':
      return 'begin'
    case 'START':
      return 'begin'
    case 'COMMIT':
    case 'END':
      return chains ? 'commit and chain' : 'commit'
    case 'PREPARE':
      return second === 'TRANSACTION' ? 'commit' : 'other'
    case 'ROLLBACK':
    case 'ABORT':
      if (words.includes('TO')) return 'rollback to'
      return chains ? 'rollback and chain' : 'rollback'
    default:
      return 'other'
  }
}
