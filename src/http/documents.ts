import swagger from '@fastify/swagger'
import type { FastifyInstance, FastifySchema } from 'fastify'
import { withStatedRules } from './stated_rules.ts'
import { type ApiDocument, CONTENT_SECURITY_POLICY, renderPage } from './documents_page.ts'

const ABOUT = `Serverless Postgres for your own machines: projects, branches, compute endpoints, \
and the operations that make them.

Send your API key as \`Authorization: Bearer <key>\`. Bodies are JSON, or forms with brackets \
(\`endpoint[branch_id]=…\`).
An \`Idempotency-Key\` on a write makes its repetition safe for 24 hours; \
\`Prefer: wait=<seconds>\` puts the answer off until the
operations have ended. Every error has the body \`{request_id, code, message}\`. \
Numbers in a query are digits, booleans \`true\` or \`false\`.
An empty text in an optional field means that the field is not given. \
What breaks the rules of a field here is answered with 400 or 422; a
method that a path does not have, with 405 and \`Allow\`; \
an operation of the public API that Neap does not have, with 404 and the code
\`NOT_SUPPORTED\`.`

/** Adds the rules that are checked elsewhere to a route's schemas of path, query and body. */
function documented(schema: FastifySchema = {}): FastifySchema {
  const parts = (['params', 'querystring', 'body'] as const).filter((part) => schema[part])
  return { ...schema, ...Object.fromEntries(parts.map((part) => [part, withStatedRules(schema[part] as object)])) }
}

/** Serves the OpenAPI document, made from the routes, and at /docs a page to read it. Register before the routes. */
export async function serveDocuments(app: FastifyInstance, base: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Neap management API', version: '2', description: ABOUT },
      servers: [{ url: base }],
      components: { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } },
      security: [{ key: [] }],
    },
    transform: ({ schema, url }) => ({ schema: documented(schema), url }),
    refResolver: { buildLocalReference: (json) => json['$id'] as string },
  })
  // Serialized once, as bytes: responses that wait to be sent share one buffer.
  let document: Buffer | undefined
  app.get(`${base}/openapi.json`, { schema: { hide: true } }, async (_request, reply) => {
    document ??= Buffer.from(JSON.stringify(app.swagger()))
    return reply.type('application/json; charset=utf-8').send(document)
  })
  let page: Buffer | undefined
  app.get('/docs', { schema: { hide: true } }, async (_request, reply) => {
    page ??= Buffer.from(renderPage(app.swagger() as unknown as ApiDocument, `${base}/openapi.json`))
    return reply
      .type('text/html; charset=utf-8')
      .headers({ 'content-security-policy': CONTENT_SECURITY_POLICY, 'x-content-type-options': 'nosniff' })
      .send(page)
  })
}
