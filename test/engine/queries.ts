import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  isArrowFunction,
  isBlock,
  isCallExpression,
  isConditionalExpression,
  isFunctionDeclaration,
  isIdentifier,
  isNoSubstitutionTemplateLiteral,
  isParenthesizedExpression,
  isPropertyAccessExpression,
  isReturnStatement,
  isTaggedTemplateExpression,
  isTemplateExpression,
  isVariableDeclaration,
} from 'typescript/unstable/ast/is'
import { type Node, NodeFlags, type TaggedTemplateExpression } from 'typescript/unstable/ast'
import type { FileSystem } from 'typescript/unstable/fs'
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

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/**
 * The queries that src/ writes with the tag `sql`, by TypeScript's own checker: one for each combination of the
 * fragments that a statement may contain. Throws where it cannot tell which fragment a value is.
 */
export function writtenQueries(root = ROOT, fs?: FileSystem): WrittenQuery[] {
  const api = new API({ cwd: root, ...(fs && { fs }) })
  try {
    const project = api.updateSnapshot({ openProjects: [`${root}tsconfig.json`] }).getProjects()[0]
    if (!project) throw new Error('TypeScript opens no project')
    const { checker, program } = project
    const texts = createTexts(checker)
    const templates = program
      .getSourceFileNames()
      .filter((name) => name.startsWith(`${root}src/`) && !name.endsWith('.test.ts'))
      .flatMap((name) => {
        const file = program.getSourceFile(name)
        const found: { readonly node: TaggedTemplateExpression; readonly place: string }[] = []
        const visit = (node: Node): void => {
          if (isSql(node)) {
            const line = (file?.text ?? '').slice(0, node.pos).split('\n').length
            found.push({ node, place: `${relative(root, name)}:${line}` })
          }
          node.forEachChild(visit)
        }
        if (file) visit(file)
        return found
      })
      .map(({ node, place }) => ({ node, place, all: texts.of(node, place) }))
    // A part of another template is no statement by itself.
    return templates
      .filter(({ node }) => !texts.isFragment(node))
      .flatMap(({ node, place, all }) => {
        const columns = columnsOf(checker, node)
        return all.map((parts) => ({ place, text: numbered(parts), columns }))
      })
  } finally {
    api.close()
  }
}

/** The text of a template before, between and after its parameters, with its fragments in their places. */
type Parts = readonly string[]

/** A value of a template that is no fragment. */
const PARAMETER = Symbol('parameter')

/** The texts that templates may have, and which templates are parts of others. */
function createTexts(checker: Checker) {
  const fragments = new Set<string>()

  function of({ template }: TaggedTemplateExpression, place: string): Parts[] {
    if (isNoSubstitutionTemplateLiteral(template)) return [[template.text]]
    if (!isTemplateExpression(template)) throw new Error(`${place}: a template of another kind`)
    return template.templateSpans.reduce<Parts[]>(
      (texts, { expression, literal }) => {
        const values = valuesOf(expression, place)
        return texts.flatMap((text) => values.map((value) => spliced(text, value, literal.text)))
      },
      [[template.head.text]],
    )
  }

  /** Each fragment that an expression may be, and PARAMETER where it may be another value. */
  function valuesOf(expression: Node, place: string): (Parts | typeof PARAMETER)[] {
    const types = checker.typeToString(checker.getTypeAtLocation(expression) ?? checker.getUnknownType()).split(' | ')
    if (!types.some((type) => type === 'SqlFragment' || type === 'SqlStatement')) return [PARAMETER]
    if (isSql(expression)) {
      fragments.add(keyOf(expression))
      return of(expression, place)
    }
    const sources = sourcesOf(expression)
    if (sources.length === 0) throw new Error(`${place}: which fragment is ${textOf(expression)}?`)
    const values = sources.flatMap((source) => valuesOf(source, place))
    // The type of an expression may be narrower than the one of its declaration.
    return types.length > 1 ? values : values.filter((value) => value !== PARAMETER)
  }

  /** The expressions that give an expression its value; none where that is not clear. */
  function sourcesOf(expression: Node): readonly Node[] {
    if (isParenthesizedExpression(expression)) return [expression.expression]
    if (isConditionalExpression(expression)) return [expression.whenTrue, expression.whenFalse]
    if (isCallExpression(expression)) return returnedBy(declarationOf(expression.expression))
    const declaration = declarationOf(expression)
    const isConstant = declaration && isVariableDeclaration(declaration) && declaration.parent.flags & NodeFlags.Const
    return isConstant && declaration.initializer ? [declaration.initializer] : []
  }

  function declarationOf(name: Node): Node | undefined {
    const symbol = isIdentifier(name) ? checker.getSymbolAtLocation(name) : undefined
    const original = symbol && symbol.flags & SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
    return original?.valueDeclaration?.resolve()
  }

  return { of, isFragment: (node: Node) => fragments.has(keyOf(node)) }
}

/** The expressions that a function returns: a declared one, or a named arrow function. */
function returnedBy(declaration: Node | undefined): readonly Node[] {
  if (!declaration) return []
  if (isVariableDeclaration(declaration)) return returnedBy(declaration.initializer)
  const body = isFunctionDeclaration(declaration) || isArrowFunction(declaration) ? declaration.body : undefined
  if (!body || !isBlock(body)) return body ? [body] : []
  const returned: Node[] = []
  const visit = (node: Node): void => {
    if (isReturnStatement(node)) returned.push(...(node.expression ? [node.expression] : []))
    else if (!isArrowFunction(node) && !isFunctionDeclaration(node)) node.forEachChild(visit)
  }
  visit(body)
  return returned
}

function isSql(node: Node): node is TaggedTemplateExpression {
  return isTaggedTemplateExpression(node) && isIdentifier(node.tag) && node.tag.text === 'sql'
}

function spliced(text: Parts, value: Parts | typeof PARAMETER, after: string): Parts {
  if (value === PARAMETER) return [...text, after]
  return joined(joined(text, value), [after])
}

function joined(left: Parts, [first = '', ...rest]: Parts): Parts {
  return [...left.slice(0, -1), `${left.at(-1) ?? ''}${first}`, ...rest]
}

function numbered(parts: Parts): string {
  return parts.reduce((text, part, index) => `${text}$${index}${part}`)
}

const keyOf = (node: Node): string => `${node.getSourceFile().fileName}:${node.pos}`

const textOf = (node: Node): string => node.getSourceFile().text.slice(node.pos, node.end).trim()

/** The row type of the call of `rows` or `row` that a query is the argument of. */
function columnsOf(checker: Checker, query: TaggedTemplateExpression): WrittenQuery['columns'] {
  let call = query.parent
  while (isConditionalExpression(call) || isParenthesizedExpression(call)) call = call.parent
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
