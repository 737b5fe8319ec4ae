import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  isCallExpression,
  isIdentifier,
  isNoSubstitutionTemplateLiteral,
  isPropertyAccessExpression,
  isTemplateExpression,
  isTaggedTemplateExpression,
} from 'typescript/unstable/ast/is'
import type { Node, TaggedTemplateExpression } from 'typescript/unstable/ast'
import { API, type Checker, SymbolFlags, type Type } from 'typescript/unstable/sync'

/** A query of src/ as it is written, and the row that the code says it answers. */
export interface WrittenQuery {
  /** `src/catalog/branch.ts:12`. */
  readonly place: string
  readonly text: string
  /** The declared columns with their types, without null; undefined where the code reads no column. */
  readonly columns: ReadonlyMap<string, DeclaredColumn> | undefined
}

export interface DeclaredColumn {
  readonly type: string
  readonly isNullable: boolean
}

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The queries that src/ writes with the tag `sql`, by TypeScript's own checker. */
export function writtenQueries(): WrittenQuery[] {
  const api = new API({ cwd: root })
  try {
    const project = api.updateSnapshot({ openProjects: [`${root}tsconfig.json`] }).getProjects()[0]
    if (!project) throw new Error('TypeScript opens no project')
    const { checker, program } = project
    return program
      .getSourceFileNames()
      .filter((name) => name.startsWith(`${root}src/`) && !name.endsWith('.test.ts'))
      .flatMap((name) => {
        const file = program.getSourceFile(name)
        const found: WrittenQuery[] = []
        const visit = (node: Node): void => {
          if (isTaggedTemplateExpression(node) && isIdentifier(node.tag) && node.tag.text === 'sql') {
            const line = (file?.text ?? '').slice(0, node.pos).split('\n').length
            found.push({
              place: `${relative(root, name)}:${line}`,
              text: textOf(node),
              columns: columnsOf(checker, node),
            })
          }
          node.forEachChild(visit)
        }
        if (file) visit(file)
        return found
      })
  } finally {
    api.close()
  }
}

function textOf({ template }: TaggedTemplateExpression): string {
  if (isNoSubstitutionTemplateLiteral(template)) return template.text
  if (!isTemplateExpression(template)) throw new Error('a template of another kind')
  return template.templateSpans.reduce(
    (text, span, index) => `${text}$${index + 1}${span.literal.text}`,
    template.head.text,
  )
}

/** The row type of the call of `rows` or `row` that a query is the argument of. */
function columnsOf(checker: Checker, query: TaggedTemplateExpression): WrittenQuery['columns'] {
  const call = query.parent
  if (!isCallExpression(call) || !isPropertyAccessExpression(call.expression)) return undefined
  const method = call.expression.name.text
  if (method !== 'rows' && method !== 'row') return undefined
  const answer = argumentOf(checker, checker.getTypeAtLocation(call))
  const row = answer && (method === 'rows' ? argumentOf(checker, answer) : checker.getNonNullableType(answer))
  // Optional properties are the code's own, added to the row later.
  const properties = (row ? checker.getPropertiesOfType(row) : []).filter(
    ({ flags }) => !(flags & SymbolFlags.Optional),
  )
  if (properties.length === 0) return undefined
  return new Map(
    properties.map((property) => {
      const declared = checker.getTypeOfSymbolAtLocation(property, query)
      const bare = checker.getNonNullableType(declared) ?? declared
      return [
        property.name,
        { type: kindOf(checker, bare), isNullable: checker.typeToString(bare) !== checker.typeToString(declared) },
      ]
    }),
  )
}

function argumentOf(checker: Checker, type: Type | undefined): Type | undefined {
  return type?.isTypeReference() ? checker.getTypeArguments(type)[0] : undefined
}

/** What a column must be for a declared type: `string`, `number`, `boolean`, `object`, or as TypeScript writes it. */
function kindOf(checker: Checker, type: Type): string {
  for (const [name, base] of [
    ['string', checker.getStringType()],
    ['number', checker.getNumberType()],
    ['boolean', checker.getBooleanType()],
  ] as const)
    if (checker.isTypeAssignableTo(type, base)) return name
  const text = checker.typeToString(type)
  if (checker.isArrayLikeType(type)) return `${kindOf(checker, argumentOf(checker, type) ?? type)}[]`
  return text === 'Buffer' || text.startsWith('Buffer<') ? 'Buffer' : 'object'
}
