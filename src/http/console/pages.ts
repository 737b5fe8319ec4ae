import { globSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import type { FastifyInstance, FastifyReply } from 'fastify'

/** Where the console is built to, by `make console`. */
const BUILT = join(import.meta.dirname, '../../../dist/console')

/** The addresses of the console's pages: all are the same document, which reads its own address. */
const PAGES = [
  '/',
  '/projects/*',
  '/keys',
  '/account',
  '/account/*',
  '/sessions',
  '/you',
  '/members',
  '/invitation',
  '/approve',
  '/approve/*',
]

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Scripts and styles are files of this origin; the page is in no other page's frame (CSP Level 3). */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

const NOT_BUILT = 'The console is not built: run make console, then start Neap again.\n'

interface BuiltFile {
  readonly type: string
  readonly plain: Buffer
  readonly brotli: Buffer | undefined
  readonly caching: string
}

/** Serves the console from memory: its pages at `PAGES`, its files at their names. */
export function servePages(app: FastifyInstance): void {
  const files = readBuilt()
  const get = (url: string, file: BuiltFile | undefined) =>
    app.get(url, { schema: { hide: true } }, async ({ headers }, reply) => {
      void reply.headers(HEADERS)
      if (!file) return reply.status(503).type('text/plain; charset=utf-8').send(NOT_BUILT)
      return sendFile(reply, file, /\bbr\b/.test(headers['accept-encoding'] ?? ''))
    })
  for (const page of PAGES) get(page, files.get('index.html'))
  for (const [name, file] of files) if (name !== 'index.html') get(`/${name}`, file)
}

function sendFile(reply: FastifyReply, { type, plain, brotli, caching }: BuiltFile, takesBrotli: boolean) {
  void reply.type(type).header('cache-control', caching).header('vary', 'accept-encoding')
  if (!brotli || !takesBrotli) return reply.send(plain)
  return reply.header('content-encoding', 'br').send(brotli)
}

function readBuilt(): Map<string, BuiltFile> {
  const paths = globSync('**/*.*', { cwd: BUILT })
  const read = (path: string) => readFileSync(join(BUILT, path))
  return new Map(
    paths
      .filter((path) => !path.endsWith('.br'))
      .map((path) => [
        path,
        {
          type: TYPES[extname(path)] ?? 'application/octet-stream',
          plain: read(path),
          brotli: paths.includes(`${path}.br`) ? read(`${path}.br`) : undefined,
          // Names of assets hold a hash of their content.
          caching: path.startsWith('assets') ? 'public, max-age=31536000, immutable' : 'no-cache',
        },
      ]),
  )
}
