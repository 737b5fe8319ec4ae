import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'

/*
 * Checks docs/conformance.md against the tests: each of its sentences names existing tests, by file and name, or says
 * which part is open. In the name of a test that is made from a template, … stands for the variable part.
 */

const ROOT = new URL('../', import.meta.url)
const read = (path: string): string => readFileSync(new URL(path, ROOT), 'utf8')

interface Row {
  readonly line: number
  readonly says: string
  readonly shownBy: string[]
}

/** A sentence is an item of a list; the nested items name the tests that show it. */
function rowsOf(document: string): Row[] {
  const rows: Row[] = []
  for (const [index, text] of document.split('\n').entries()) {
    const says = /^- (.+)$/.exec(text)?.[1]
    const shownBy = /^ {2}- (.+)$/.exec(text)?.[1]
    if (says !== undefined) rows.push({ line: index + 1, says, shownBy: [] })
    if (shownBy !== undefined) rows.at(-1)?.shownBy.push(shownBy)
  }
  return rows
}

/** The names of the tests in a file. A `todo` test does not count. */
function testsOf(source: string): Set<string> {
  const found = source.matchAll(/\btest\(\s*(['"`])((?:\\.|(?!\1)[^\\])*)\1,\s*(\{[^}]*\btodo\b)?/g)
  const names = [...found].flatMap(([, , name = '', todo]) => (todo ? [] : [name]))
  const shown = (name: string) => name.replaceAll(/\$\{[^}]*\}/g, '…').replaceAll(/\\(.)/g, '$1')
  return new Set(names.flatMap(readings).map(shown))
}

/** A name with a conditional expression stands for both alternatives. */
function readings(name: string): string[] {
  const [choice, one = '', other = ''] = /\$\{\w+ \? '([^']*)' : '([^']*)'\}/.exec(name) ?? []
  return choice === undefined ? [name] : [one, other].map((each) => name.replace(choice, () => each))
}

const known = new Map<string, Set<string>>()
function testsIn(file: string): Set<string> {
  const names = known.get(file) ?? (existsSync(new URL(file, ROOT)) ? testsOf(read(file)) : new Set<string>())
  known.set(file, names)
  return names
}

/** The problems of a document, as texts. */
function problemsOf(document: string): string[] {
  const said = new Set<string>()
  return rowsOf(document).flatMap(({ line, says, shownBy }) => {
    const problems = shownBy.flatMap((each) => {
      if (/^open: \S/.test(each)) return []
      const [, file, name] = /^`((?:test|src)\/\S+\.test\.ts)` › (.+)$/.exec(each) ?? []
      if (file === undefined || name === undefined) return [`${each}: neither a test nor open`]
      return testsIn(file).has(name) ? [] : [`${file} has no test "${name}"`]
    })
    if (shownBy.length === 0) problems.push(`nothing shows it: ${says}`)
    if (said.has(says)) problems.push(`it says that twice: ${says}`)
    said.add(says)
    return problems.map((problem) => `line ${line}: ${problem}`)
  })
}

const document = read('docs/conformance.md')

test('each sentence of docs/conformance.md names existing tests, or an open part', () => {
  assert.deepEqual(problemsOf(document), [])
  assert.ok(rowsOf(document).length > 150, 'its rows are read as such')
})

test('docs/conformance.md lists every deviation from the answers that public clients declare', () => {
  const reasons = [...read('test/clients/api_client.test.ts').matchAll(/^ {4}why: '(.*)',$/gm)].map(([, why]) => why)
  assert.ok(reasons.length > 0)
  for (const why of reasons) assert.ok(document.includes(why ?? ''), why)
})

test('the check reports each kind of problem', () => {
  const here = 'test/conformance.test.ts'
  const right = `- It is so.\n  - \`${here}\` › the check reports each kind of problem\n  - open: more of it\n`
  assert.deepEqual(problemsOf(right), [])
  const wrong: [string, RegExp][] = [
    ['- It is so.\n', /^line 1: nothing shows it/],
    [right + right, /^line 4: it says that twice/],
    [right.replace('reports', 'repeats'), /^line 1: .* has no test "the check repeats each kind of problem"/],
    [right.replace(here, 'test/none.test.ts'), /has no test/],
    [right.replace('open: more of it', 'open:'), /neither a test nor open/],
    [right.replace('open: ', ''), /neither a test nor open/],
  ]
  for (const [text, problem] of wrong) assert.match(problemsOf(text).join('\n'), problem)
  const source = [
    `test('a \\'quoted\\' one', () => {})`,
    `  test(\`\${key} has \${x}\`, f)`,
    `test(\`\${key} \${is ? 'is' : 'is not'}\`, f)`,
    `test('later', { todo: true }, f)`,
  ].join('\n')
  assert.deepEqual([...testsOf(source)], ["a 'quoted' one", '… has …', '… is', '… is not'])
})
