const MAX_FIELDS = 1_000
const MAX_DEPTH = 8
const MAX_INDEX = 100

/** The form cannot be parsed; the message is for the client. */
export class FormError extends Error {}

interface Fields {
  [name: string]: string | string[] | Fields
}

/**
 * Parses a form (`application/x-www-form-urlencoded`) whose names have brackets, as clients of the API write them:
 * `branch[name]=x&endpoints[0][type]=y&events[]=z`. A group whose names are all indices becomes a list, as does a
 * repeated name. All values are text.
 * Errors: FormError for too many fields, levels or elements, and for a name that is both a value and a group.
 */
export function parseForm(text: string): Record<string, unknown> {
  const root = group()
  let count = 0
  for (const [name, value] of new URLSearchParams(text)) {
    if (++count > MAX_FIELDS) throw new FormError(`The form has over ${MAX_FIELDS} fields.`)
    place(root, partsOf(name), value)
  }
  return Object.fromEntries(Object.entries(root).map(([name, each]) => [name, withLists(each)]))
}

// Without a prototype, so that no name is inherited.
const group = (): Fields => Object.create(null) as Fields

/** `a[b][]` yields a, b and an empty name. A name with unbalanced brackets is one part. */
function partsOf(name: string): string[] {
  const [, first, rest = ''] = /^([^[\]]+)((?:\[[^[\]]*\])*)$/.exec(name) ?? []
  if (first === undefined) return [name]
  const parts = [first, ...[...rest.matchAll(/\[([^[\]]*)\]/g)].map(([, part = '']) => part)]
  if (parts.length > MAX_DEPTH) throw new FormError(`The form is nested over ${MAX_DEPTH} levels deep.`)
  return parts
}

function place(root: Fields, parts: readonly string[], value: string): void {
  let fields = root
  for (const [index, part] of parts.entries()) {
    // An empty name is the next element of a list.
    const name = part === '' ? String(Object.keys(fields).length) : part
    const before = fields[name]
    const isLast = index === parts.length - 1
    if (before !== undefined && isLast !== (typeof before === 'string' || Array.isArray(before)))
      throw new FormError(`The form has ${JSON.stringify(name)} both as a value and as a group.`)
    if (isLast) fields[name] = before === undefined ? value : [before as string | string[], value].flat()
    else fields = (fields[name] ??= group()) as Fields
  }
}

function withLists(each: Fields[string]): unknown {
  if (typeof each === 'string' || Array.isArray(each)) return each
  const entries = Object.entries(each).map(([name, value]) => [name, withLists(value)] as const)
  if (!entries.every(([name]) => /^\d{1,9}$/.test(name))) return Object.fromEntries(entries)
  // Objects list integer names in ascending order.
  if (entries.some(([name]) => Number(name) > MAX_INDEX))
    throw new FormError(`The form has a list of over ${MAX_INDEX} elements.`)
  return entries.map(([, value]) => value)
}
