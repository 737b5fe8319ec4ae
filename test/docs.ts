/*
 * Writes the generated documents: openapi.json, docs/settings.md, and the list of unsupported operations
 * of the public API.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { loadConfig } from '../src/config.ts'
import { SETTINGS } from '../src/settings.ts'
import type { Context } from '../src/context.ts'
import { NOT_SUPPORTED } from '../src/http/not_supported.ts'
import { buildServer } from '../src/http/server.ts'

const openapi = new URL('../openapi.json', import.meta.url)
const settings = new URL('../docs/settings.md', import.meta.url)
const notSupported = new URL('../docs/not-supported.md', import.meta.url)
const SECTION = /(<!-- settings: .*? -->\n)[\s\S]*?(<!-- \/settings -->)/

/** The expected documents, by file. */
export async function documents(): Promise<Map<URL, string>> {
  // The document is made from the routes' declarations; no handler runs, so the catalog is not queried.
  const catalog = { listen: async () => () => {} }
  const app = await buildServer({
    log: pino({ level: 'silent' }),
    config: loadConfig({}, {}),
    catalog,
    registry: new Registry(),
  } as unknown as Context)
  await app.ready()
  const description = `${JSON.stringify((app as typeof app & { swagger(): object }).swagger(), null, 2)}\n`
  await app.close()
  return new Map([
    [openapi, description],
    [notSupported, notSupportedPage()],
    [settings, readFileSync(settings, 'utf8').replace(SECTION, `$1${settingsTable()}$2`)],
  ])
}

function notSupportedPage(): string {
  const products = NOT_SUPPORTED.map(({ product, instead, operations }) => {
    const items = operations.map((key) => `- \`${key.replaceAll(/:(\w+)/g, '{$1}')}\`\n`)
    return `\n## No ${product}\n\n${instead}\n\n${items.join('')}`
  })
  return `# What of the public API is not supported

Written by \`make docs\` from \`src/http/not_supported.ts\`. After authentication each of these operations answers 404
with \`code: NOT_SUPPORTED\` and a message that says the same as the paragraph here. Lists that clients read beside
other requests are served and empty (buckets, functions, permissions, jwks, invitations, VPC endpoints). A
method that a path does not take answers 405 with \`Allow\`.
${products.join('')}`
}

function settingsTable(): string {
  const rows = Object.values(SETTINGS).map(({ env, flag, about, fallback }) => {
    const value = String(fallback('<data>') ?? '').replace(homedir(), '~')
    const shown =
      env === 'NEAP_DATA_DIR'
        ? '`/var/lib/neap` (root), `~/.local/share/neap`'
        : env === 'NEAP_RUNTIME_DIR'
          ? 'below `/run` or `/tmp`'
          : value && `\`${value}\``
    return `| \`${env}\` | ${flag ? `\`${flag}\`` : ''} | ${about} | ${shown} |\n`
  })
  return `| variable | flag | what | default |\n|---|---|---|---|\n${rows.join('')}`
}

if (process.argv[1] === import.meta.filename) for (const [file, text] of await documents()) writeFileSync(file, text)
