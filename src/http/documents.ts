import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'

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
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: true,
    uiConfig: { docExpansion: 'list', deepLinking: true, tryItOutEnabled: false },
    // The bar above shows the library's own logo and asks for the address of another document.
    theme: {
      title: 'Neap management API',
      css: [{ filename: 'neap.css', content: '.swagger-ui .topbar { display: none }' }],
    },
  })
  app.get(`${base}/openapi.json`, { schema: { hide: true } }, async () => app.swagger())
}
