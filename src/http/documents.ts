import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import { type ApiDocument, CONTENT_SECURITY_POLICY, renderPage } from './documents_page.ts'

const ABOUT = `Serverless Postgres for your own machines: projects, branches, compute endpoints, and the operations that make them.

Send your API key as \`Authorization: Bearer <key>\`. Bodies are JSON, or forms with brackets (\`endpoint[branch_id]=…\`).
An \`Idempotency-Key\` on a write makes its repetition safe for 24 hours; \`Prefer: wait=<seconds>\` puts the answer off until the
operations have ended. Every error has the body \`{request_id, code, message}\`.`

/** The OpenAPI document, made from the routes, and a page to read it at /docs. Register before the routes. */
export async function serveDocuments(app: FastifyInstance, base: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Neap management API', version: '2', description: ABOUT },
      servers: [{ url: base }],
      components: { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } },
      security: [{ key: [] }],
    },
    refResolver: { buildLocalReference: (json) => json['$id'] as string },
  })
  // Serialized once, and as bytes: an answer that waits to be sent then holds no copy of its own.
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
