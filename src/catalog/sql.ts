/** A statement with its values apart from its text. Created only by `sql`, so that values never become text. */
export interface SqlStatement {
  readonly name: string
  readonly text: string
  readonly values: unknown[]
}

const known = new WeakMap<TemplateStringsArray, { name: string; text: string }>()
let count = 0

/**
 * Makes a statement of a template literal; each place in the code is prepared once per connection. `undefined` becomes
 * null.
 */
export function sql(strings: TemplateStringsArray, ...values: unknown[]): SqlStatement {
  let statement = known.get(strings)
  if (!statement) {
    const text = strings.reduce((sofar, part, index) => `${sofar}$${index}${part}`)
    statement = { name: `neap_${++count}`, text }
    known.set(strings, statement)
  }
  return { ...statement, values: values.map((value) => value ?? null) }
}
