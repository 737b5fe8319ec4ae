/** A column of a result (Postgres manual, "Message Formats", RowDescription). */
export interface Field {
  readonly name: string
  readonly tableID: number
  readonly columnID: number
  readonly dataTypeID: number
  readonly dataTypeSize: number
  readonly dataTypeModifier: number
  readonly format: 'text'
}

export interface RowFormat {
  /** Rows as arrays rather than objects. */
  readonly arrayMode: boolean
  /** Values as the texts that Postgres sends rather than as JSON values. */
  readonly rawText: boolean
}

/** The text of a value as JSON. */
type Encode = (text: string) => string

const quoted: Encode = (text) => JSON.stringify(text)
/** JSON has no NaN and no infinities. */
const number: Encode = (text) => (/^[-\d]/.test(text) && !text.endsWith('y') ? text : quoted(text))
const bool: Encode = (text) => (text === 't' ? 'true' : 'false')
const json: Encode = (text) => text

/** By OID of the type and of its array type (pg_type.dat). int8 and numeric stay text: JavaScript would lose digits. */
const TYPES: readonly (readonly [type: number, array: number, encode: Encode])[] = [
  [16, 1000, bool],
  [21, 1005, number],
  [23, 1007, number],
  [700, 1021, number],
  [701, 1022, number],
  [114, 199, json],
  [3802, 3807, json],
]

/** Array types with elements that stay text: names, texts, dates, numbers with many digits, addresses, bits, ranges. */
const ARRAYS_OF_TEXT = [
  143, 271, 629, 651, 719, 775, 791, 1001, 1002, 1003, 1006, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 1015, 1016, 1017,
  1018, 1019, 1027, 1028, 1034, 1040, 1041, 1115, 1182, 1183, 1185, 1187, 1231, 1263, 1270, 1561, 1563, 2201, 2207,
  2208, 2209, 2210, 2211, 2287, 2949, 2951, 3221, 3643, 3644, 3645, 3735, 3770, 3905, 3907, 3909, 3911, 3913, 3927,
  4073, 4090, 4097, 4192, 5039, 6150, 6151, 6152, 6153, 6155, 6157,
]

const ENCODERS = new Map<number, Encode>([
  ...TYPES.map(([type, , encode]) => [type, encode] as const),
  ...TYPES.map(([, array, encode]) => [array, arrayOf(encode)] as const),
  ...ARRAYS_OF_TEXT.map((array) => [array, arrayOf(quoted)] as const),
])

/** Returns a function that makes the JSON of a row from the body of its DataRow. */
export function rowEncoder(fields: readonly Field[], { arrayMode, rawText }: RowFormat): (body: Buffer) => string {
  const encoders = fields.map(({ dataTypeID }) => (rawText ? undefined : ENCODERS.get(dataTypeID)) ?? quoted)
  const names = fields.map(({ name }) => (arrayMode ? '' : `${JSON.stringify(name)}:`))
  const [opens, closes] = arrayMode ? '[]' : '{}'
  return (body) => {
    const count = body.readUInt16BE(0)
    let row = opens ?? ''
    let at = 2
    for (let column = 0; column < count; column++) {
      const length = body.readInt32BE(at)
      at += 4
      if (column > 0) row += ','
      row += names[column]
      if (length < 0) row += 'null'
      else {
        row += (encoders[column] ?? quoted)(body.toString('utf8', at, at + length))
        at += length
      }
    }
    return row + closes
  }
}

/** Converts the text of an array to a JSON array (Postgres manual, "Array Input and Output Syntax"). */
function arrayOf(encode: Encode): Encode {
  const token = /([{},])|"((?:[^"\\]|\\[^])*)"|([^{},"]+)/y
  return (text) => {
    // Lower bounds other than one come before the elements.
    token.lastIndex = text.startsWith('[') ? text.indexOf('=') + 1 : 0
    let result = ''
    for (let found = token.exec(text); found; found = token.exec(text)) {
      const [, mark, inQuotes, plain] = found
      if (mark !== undefined) result += mark === '{' ? '[' : mark === '}' ? ']' : mark
      else if (inQuotes !== undefined) result += encode(inQuotes.replaceAll(/\\([^])/g, '$1'))
      else result += plain === 'NULL' ? 'null' : encode(plain ?? '')
    }
    return result
  }
}

/** Reads the body of a RowDescription. */
export function parseFields(body: Buffer): Field[] {
  let at = 2
  return Array.from({ length: body.readUInt16BE(0) }, () => {
    const end = body.indexOf(0, at)
    const name = body.toString('utf8', at, end)
    at = end + 19
    return {
      name,
      tableID: body.readUInt32BE(end + 1),
      columnID: body.readInt16BE(end + 5),
      dataTypeID: body.readUInt32BE(end + 7),
      dataTypeSize: body.readInt16BE(end + 11),
      dataTypeModifier: body.readInt32BE(end + 13),
      format: 'text',
    }
  })
}
