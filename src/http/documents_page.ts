import { createHash } from 'node:crypto'

/** The part of an OpenAPI document that the page shows. */
export interface ApiDocument {
  readonly info: { readonly title: string; readonly description: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>
  readonly components?: { readonly schemas?: Readonly<Record<string, object>> }
}

interface Described {
  readonly summary?: string
  readonly tags?: readonly string[]
  readonly parameters?: readonly {
    readonly name: string
    readonly in: string
    readonly required?: boolean
    readonly description?: string
    readonly schema?: object
  }[]
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema?: object }>> }
  readonly responses?: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema?: object }>> }>
  >
}

const STYLE = `body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; \
color-scheme: light dark }
summary { cursor: pointer; padding: .25rem 0 } pre { overflow-x: auto; font-size: .85rem; \
padding: .5rem; border: 1px solid #8886 }
b { display: inline-block; width: 4.5rem; font-family: monospace } td { padding-right: 1rem; vertical-align: top }`

/** The page has no script, and only this style. */
export const CONTENT_SECURITY_POLICY =
  `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; ` +
  `base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

/** Renders the document as one HTML page: the operations by tag, with their parameters, body and response. */
export function renderPage({ info, paths, components }: ApiDocument, source: string): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => ({ path, method, described })),
  )
  const byTag = Map.groupBy(operations, ({ described }) => described.tags?.[0] ?? '')
  const sections = [...byTag].map(([tag, each]) => {
    const described = each.map((one) => operation(one.path, one.method, one.described))
    return `<h2>${escaped(tag)}</h2>\n${described.join('\n')}`
  })
  const schemas = Object.entries(components?.schemas ?? {}).map(
    ([name, schema]) => `<details id="${escaped(name)}"><summary>${escaped(name)}</summary>${json(schema)}</details>`,
  )
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${escaped(info.title)}</title><style>${STYLE}</style></head>
<body><h1>${escaped(info.title)}</h1>
${info.description
  .split('\n\n')
  .map((each) => `<p>${escaped(each)}</p>`)
  .join('\n')}
<p>For programs: <a href="${escaped(source)}">${escaped(source)}</a></p>
${sections.join('\n')}
<h2>Schemas</h2>
${schemas.join('\n')}
</body></html>
`
}

function operation(path: string, method: string, described: Described): string {
  const { summary = '', parameters = [], requestBody, responses = {} } = described
  const rows = parameters.map(
    ({ name, in: where, required, description = '', schema = {} }) =>
      `<tr><td><code>${escaped(name)}</code></td><td>${escaped(where)}${required ? ', required' : ''}</td>` +
      `<td><code>${escaped(JSON.stringify(schema))}</code> ${escaped(description)}</td></tr>`,
  )
  const answers = Object.entries(responses).map(([status, { content }]) => {
    const [schema] = Object.values(content ?? {}).map((each) => each.schema)
    return `<p>${escaped(status)}</p>${schema && Number(status) < 300 ? json(schema) : ''}`
  })
  const [body] = Object.values(requestBody?.content ?? {}).map(({ schema }) => schema)
  return `<details><summary><b>${escaped(method.toUpperCase())}</b> <code>${escaped(path)}</code> \
${escaped(summary)}</summary>
${rows.length > 0 ? `<table>${rows.join('\n')}</table>` : ''}
${body ? `<p>Body</p>${json(body)}` : ''}
${answers.join('\n')}</details>`
}

const json = (value: object): string => `<pre>${escaped(JSON.stringify(value, null, 2))}</pre>`

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
const escaped = (text: string): string => text.replace(/[&<>"]/g, (each) => ENTITIES[each] ?? '')
