import type { CommandTable, ListedCommand } from '../cli/program.ts'

const MACHINE: readonly ListedCommand[] = [
  {
    usage: 'up',
    about: 'Start Neap.',
    load: async (_options, env) => (await import('./up_command.ts')).upCommand(env),
  },
  {
    usage: 'status',
    about: 'Show what runs: computes, since when, and their memory.',
    load: async ({ dataDir }) => (await import('../cli/status.ts')).statusCommand(dataDir),
  },
  {
    usage: 'sign-in',
    about: 'Print a link that signs you in at the console, once, within an hour.',
    load: async ({ dataDir }) => (await import('../cli/sign_in.ts')).signInCommand(dataDir),
  },
  {
    usage: 'psql [branch] [args...]',
    about: 'A plain SQL prompt, for machines without psql; or psql with its arguments.',
    load: async ({ dataDir }) => (await import('../cli/psql.ts')).psqlCommand(dataDir),
  },
  {
    usage: 'doctor [host]',
    about: 'Say what a client on this machine would meet at a Neap: name, port, certificate, clock, version, limits.',
    load: async ({ dataDir }) => (await import('../cli/doctor.ts')).doctorCommand(dataDir),
  },
  {
    usage: 'storage',
    about: 'See how branches are cloned and their space; make an image that clones them.',
    load: async ({ dataDir }) => (await import('../cli/storage.ts')).storageCommand(dataDir),
  },
  {
    usage: 'backup',
    about: 'Back up all of this Neap to a repository elsewhere, and see what is there.',
    load: async ({ dataDir }, env) => (await import('../cli/backup.ts')).backupCommand(dataDir, env),
  },
  {
    usage: 'restore',
    about: 'Restore a Neap from the repository of its backups, on an empty machine.',
    load: async ({ dataDir }, env) => (await import('../cli/restore.ts')).restoreCommand(dataDir, env),
  },
  {
    usage: 'secrets',
    about: 'Show how old the secrets of this Neap are; rotate them while it runs.',
    load: async ({ dataDir }) => (await import('../cli/secrets.ts')).secretsCommand(dataDir),
  },
  {
    usage: 'catalog',
    about: 'See what a restored catalog does not know; take a data directory over.',
    load: async ({ dataDir }) => (await import('../cli/catalog.ts')).catalogCommand(dataDir),
  },
]

const PROJECTS: readonly ListedCommand[] = [
  {
    usage: 'projects',
    about: 'Projects: each holds branches of one Postgres.',
    load: async ({ access }) => (await import('../cli/projects.ts')).projectsCommand(access),
  },
  {
    usage: 'branches',
    about: 'Branches: each is a Postgres of its own, made as a copy of its parent.',
    load: async ({ access }) => (await import('../cli/branches.ts')).branchesCommand(access),
  },
  {
    usage: 'snapshots',
    alias: 'snapshot',
    about: 'Snapshots: what a branch had at a moment, kept until you remove it.',
    load: async ({ access }) => (await import('../cli/snapshots.ts')).snapshotsCommand(access),
  },
  {
    usage: 'endpoints',
    about: 'Compute endpoints: where clients connect to a branch.',
    load: async ({ access }) => (await import('../cli/endpoints.ts')).endpointsCommand(access),
  },
  {
    usage: 'databases',
    about: 'Databases of a branch.',
    load: async ({ access }) => (await import('../cli/databases.ts')).databasesCommand(access),
  },
  {
    usage: 'roles',
    about: 'Roles of a branch, as which clients connect.',
    load: async ({ access }) => (await import('../cli/roles.ts')).rolesCommand(access),
  },
  {
    usage: 'operations',
    about: 'Operations: what Neap does to make true what was asked for.',
    load: async ({ access }) => (await import('../cli/operations.ts')).operationsCommand(access),
  },
  {
    usage: 'connection-string [branch]',
    about: 'Print what psql and drivers connect to a branch with, password included.',
    load: async ({ access }) => (await import('../cli/connection_string.ts')).connectionStringCommand(access),
  },
  {
    usage: 'ca',
    about:
      'Print the certificates to verify this Neap with: neap ca > neap-ca.crt, for sslrootcert or ' +
      'NODE_EXTRA_CA_CERTS.',
    load: async ({ access }) => (await import('../cli/certificate_authority.ts')).certificateAuthorityCommand(access),
  },
]

const ACCESS: readonly ListedCommand[] = [
  {
    usage: 'account',
    about: 'The account: its plan, its limits and its quotas of the month.',
    load: async ({ access }) => (await import('../cli/account.ts')).accountCommand(access),
  },
  {
    usage: 'approve <code>',
    about: 'Let in a client that gave no password and shows this code.',
    load: async ({ access }) => (await import('../cli/approve.ts')).approveCommand(access),
  },
  {
    usage: 'keys',
    alias: 'key',
    about: 'API keys: for programs, and for other machines.',
    load: async ({ access }) => (await import('../cli/keys.ts')).keysCommand(access),
  },
  {
    usage: 'members',
    alias: 'member',
    about: 'The people of an organization, and invitations to it.',
    load: async ({ access }) => (await import('../cli/members.ts')).membersCommand(access),
  },
  {
    usage: 'webhooks',
    alias: 'webhook',
    about: 'Webhooks: HTTP notifications of changes.',
    load: async ({ access }) => (await import('../cli/webhooks.ts')).webhooksCommand(access),
  },
]

const PARTS: readonly ListedCommand[] = [
  {
    usage: 'api',
    about: 'Run the management API.',
    load: async () => (await import('./part_command.ts')).partCommand('api'),
  },
  {
    usage: 'worker',
    about: 'Run the worker that makes operations true.',
    load: async () => (await import('./part_command.ts')).partCommand('worker'),
  },
  {
    usage: 'proxy',
    about: 'Run the Postgres proxy.',
    load: async () => (await import('./part_command.ts')).partCommand('proxy'),
  },
]

/** All commands, by the headings of the help. */
export const COMMANDS: CommandTable = {
  'This machine:': MACHINE,
  'Projects and what is in them:': PROJECTS,
  'Access:': ACCESS,
  'Parts of Neap by themselves:': PARTS,
}
