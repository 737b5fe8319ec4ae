import { type Address, libpqUri } from './address.ts'
import { shell, type Snippet } from './snippet.ts'

/** Frameworks, each with the files that its client is set up by. */
export const frameworks = (address: Address): readonly Snippet[] => [
  prisma(libpqUri(address)),
  drizzle(libpqUri(address)),
  django(address),
]

const MIGRATIONS = 'Migrations want a direct connection: untick Pool connections for their string.'

const prisma = (uri: string): Snippet => ({
  id: 'prisma',
  title: 'Prisma',
  hint: MIGRATIONS,
  parts: [
    shell('npm pkg set type=module\nnpm install prisma@7 @prisma/client@7 @prisma/adapter-pg@7'),
    {
      where: 'prisma.config.ts',
      text: `import { defineConfig } from 'prisma/config'

export default defineConfig({
  schema: 'schema.prisma',
  datasource: { url: '${uri}' },
})`,
    },
    {
      where: 'schema.prisma',
      text: `generator client {
  provider = "prisma-client"
  output   = "generated"
}

datasource db {
  provider = "postgresql"
}`,
    },
    {
      where: 'neap.ts',
      text: `import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from './generated/client.ts'

const adapter = new PrismaPg({ connectionString: '${uri}' })
const prisma = new PrismaClient({ adapter })
const [row] = await prisma.$queryRaw<{ version: string }[]>\`select version()\`
console.log(row?.version)
await prisma.$disconnect()`,
    },
    shell('npx prisma generate && node neap.ts'),
  ],
})

const drizzle = (uri: string): Snippet => ({
  id: 'drizzle',
  title: 'Drizzle',
  hint: MIGRATIONS,
  parts: [
    shell('npm install drizzle-orm pg'),
    {
      where: 'neap.mjs',
      text: `import { drizzle } from 'drizzle-orm/node-postgres'

const db = drizzle('${uri}')
const { rows } = await db.execute('select version()')
console.log(rows[0].version)
await db.$client.end()`,
    },
    shell('node neap.mjs'),
  ],
})

const django = ({ host, port, user, password, database, options, authority }: Address): Snippet => {
  const libpq = {
    sslmode: authority === undefined ? 'require' : 'verify-full',
    ...(authority !== undefined && { sslrootcert: authority }),
    ...(options !== undefined && { options }),
  }
  const lines = (entries: Readonly<Record<string, string>>, indent: string) =>
    Object.entries(entries)
      .map(([name, value]) => `${indent}"${name}": ${JSON.stringify(value)},`)
      .join('\n')
  return {
    id: 'django',
    title: 'Django',
    hint: 'With pooling set DISABLE_SERVER_SIDE_CURSORS, as Django advises for pools of transactions.',
    parts: [
      shell('pip install django "psycopg[binary]"'),
      {
        where: 'settings.py',
        text: `DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
${lines({ NAME: database, USER: user, PASSWORD: password, HOST: host, PORT: port }, '        ')}
        "OPTIONS": {
${lines(libpq, '            ')}
        },
        "DISABLE_SERVER_SIDE_CURSORS": True,
    }
}`,
      },
      shell(
        `django-admin shell --settings settings --pythonpath . -c '\nfrom django.db import connection\n` +
          `with connection.cursor() as cursor:\n    cursor.execute("select version()")\n` +
          `    print(cursor.fetchone()[0])'`,
      ),
    ],
  }
}
