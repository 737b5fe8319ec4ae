/** A statement with its values apart from its text. */
export interface SqlStatement {
  readonly name: string
  readonly text: string
  readonly values: unknown[]
}

/** A statement, or a part of statements. Created only by `sql`, so that values never become text. */
export interface SqlFragment extends SqlStatement {
  readonly [SHAPE]: Shape
}

/** The text of a statement or fragment. Each shape is one object, so that it identifies its text. */
interface Shape {
  readonly name: string
  readonly text: string
  /** The text before, between and after the parameters. */
  readonly parts: readonly string[]
}

/** The shapes of one template: its own, and those with a fragment (or undefined: a parameter) as the next value. */
interface ShapeTree {
  shape: Shape | undefined
  readonly next: Map<Shape | undefined, ShapeTree>
}

const SHAPE = Symbol('shape')
const trees = new WeakMap<TemplateStringsArray, ShapeTree>()
let count = 0

/**
 * Makes a statement, or a fragment, of a template literal. A value becomes a parameter, `undefined` null; a fragment
 * becomes a part of the text, with its own parameters. Each template, and each combination of a template with
 * fragments, is prepared once per connection and known for the life of the process: the number of combinations must
 * follow from the code, not from data.
 */
export function sql(strings: TemplateStringsArray, ...values: unknown[]): SqlFragment {
  for (let index = 0; index < values.length; index++) {
    const value = values[index]
    if (value === undefined) values[index] = null
    else if (isFragment(value)) return compose(strings, values)
  }
  const tree = treeOf(strings)
  tree.shape ??= shapeOf(strings)
  return fragment(tree.shape, values)
}

function compose(strings: TemplateStringsArray, values: readonly unknown[]): SqlFragment {
  let tree = treeOf(strings)
  const parameters: unknown[] = []
  for (const value of values) {
    const nested = isFragment(value) ? value : undefined
    tree = childOf(tree, nested?.[SHAPE])
    if (nested) parameters.push(...nested.values)
    else parameters.push(value ?? null)
  }
  tree.shape ??= shapeOf(splice(strings, values))
  return fragment(tree.shape, parameters)
}

function treeOf(strings: TemplateStringsArray): ShapeTree {
  const known = trees.get(strings)
  if (known) return known
  const tree = { shape: undefined, next: new Map() }
  trees.set(strings, tree)
  return tree
}

function childOf(tree: ShapeTree, nested: Shape | undefined): ShapeTree {
  const known = tree.next.get(nested)
  if (known) return known
  const child = { shape: undefined, next: new Map() }
  tree.next.set(nested, child)
  return child
}

function shapeOf(parts: readonly string[]): Shape {
  const text = parts.reduce((sofar, part, index) => `${sofar}$${index}${part}`)
  return { name: `neap_${++count}`, text, parts }
}

/** The parts of a template with those of its fragments in their places. */
function splice(strings: TemplateStringsArray, values: readonly unknown[]): readonly string[] {
  return values.reduce<readonly string[]>(
    (parts, value, index) => {
      const after = strings[index + 1] ?? ''
      return isFragment(value) ? join(join(parts, value[SHAPE].parts), [after]) : [...parts, after]
    },
    strings.slice(0, 1),
  )
}

/** Joins the last part of one text with the first part of another. */
function join(left: readonly string[], [first = '', ...rest]: readonly string[]): readonly string[] {
  return [...left.slice(0, -1), `${left.at(-1)}${first}`, ...rest]
}

function fragment(shape: Shape, values: unknown[]): SqlFragment {
  return { name: shape.name, text: shape.text, values, [SHAPE]: shape }
}

function isFragment(value: unknown): value is SqlFragment {
  return typeof value === 'object' && value !== null && SHAPE in value
}
