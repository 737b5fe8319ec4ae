/** A place or an action that the palette reaches. */
export interface Entry {
  readonly id: string
  readonly title: string
  /** Where it is, or what it is of. */
  readonly about: string
  readonly href: string
}

/** Where the reader is, of which the palette offers more. */
export interface Here {
  readonly projectId: string | undefined
  readonly branchId: string | undefined
}

export function hereOf(path: string): Here {
  const [, projectId, branchId] = /^\/projects\/([^/]+)(?:\/branches\/([^/]+))?/.exec(path) ?? []
  return { projectId, branchId }
}

const entry = (title: string, about: string, href: string): Entry => ({ id: `${title} ${href}`, title, about, href })

const ANYWHERE = [
  entry('Projects', 'Page', '/'),
  entry('API keys', 'Page', '/keys'),
  entry('Account: plan and limits', 'Page', '/account'),
  entry('Account: usage', 'Page', '/account/usage'),
  entry('Webhooks', 'Page', '/account/webhooks'),
  entry('Audit', 'Page', '/account/audit'),
  entry('Members and invitations', 'Page', '/members'),
  entry('You: password, passkeys, organizations, sessions', 'Page', '/you'),
  entry('Let a client in by its code', 'Page', '/approve'),
  entry('New project', 'Action', '/?do=new-project'),
  entry('New API key', 'Action', '/keys?do=new-key'),
  entry('New webhook', 'Action', '/account/webhooks?do=new-webhook'),
]

const ofProject = (id: string): readonly Entry[] => {
  const at = `/projects/${id}`
  const [page, action] = ['Page of this project', 'Action on this project']
  return [
    entry('Branches', page, at),
    entry('Operations', page, `${at}/operations`),
    entry('Usage', page, `${at}/usage`),
    entry('Project settings', page, `${at}/settings`),
    entry('New branch', action, `${at}?do=new-branch`),
    entry('Rename project', action, `${at}/settings?do=rename`),
    entry('Change allowed addresses', action, `${at}/settings?do=addresses`),
    entry('Change quotas', action, `${at}/settings?do=quotas`),
    entry('Change defaults of new computes', action, `${at}/settings?do=defaults`),
    entry('Egress', action, `${at}/settings?do=enable_egress`),
    entry('Logical replication', action, `${at}/settings?do=enable_logical_replication`),
    entry('Delete project', action, `${at}/settings?do=delete`),
  ]
}

const ofBranch = (projectId: string, id: string): readonly Entry[] => {
  const at = `/projects/${projectId}/branches/${id}`
  const [page, action] = ['Page of this branch', 'Action on this branch']
  return [
    entry('Branch overview', page, at),
    entry('Monitoring', page, `${at}/monitoring`),
    entry('SQL editor', page, `${at}/sql`),
    entry('Tables', page, `${at}/tables`),
    entry('Query insights', page, `${at}/insights`),
    entry('Connect', page, `${at}/connect`),
    entry('Roles and databases', page, `${at}/roles`),
    entry('Compare schemas', page, `${at}/schema`),
    entry('Restore', page, `${at}/restore`),
    entry('Branch settings', page, `${at}/settings`),
    entry('Start, suspend or restart compute', action, at),
    entry('Resize compute', action, `${at}?do=resize`),
    entry('Change suspend timeout', action, `${at}?do=suspend-timeout`),
    entry('Move compute to another branch', action, `${at}?do=move`),
    entry('Enable or disable compute', action, `${at}?do=enable`),
    entry('Add a compute', action, `${at}?do=add-compute`),
    entry('New role', action, `${at}/roles?do=new-role`),
    entry('New database', action, `${at}/roles?do=new-database`),
    entry('Rename branch', action, `${at}/settings?do=rename`),
    entry('Make it the default branch', action, `${at}/settings?do=default`),
    entry('Protect or unprotect branch', action, `${at}/settings?do=protect`),
    entry('Change expiry', action, `${at}/settings?do=expiry`),
    entry('Delete branch', action, `${at}/settings?do=delete`),
    entry('Reset from parent', action, `${at}/restore?do=reset`),
    entry('Restore from another branch', action, `${at}/restore?do=restore`),
  ]
}

/** The pages and actions that are known where the reader is, the nearest first. */
export const entriesAt = ({ projectId, branchId }: Here): readonly Entry[] => [
  ...(projectId !== undefined && branchId !== undefined ? ofBranch(projectId, branchId) : []),
  ...(projectId !== undefined ? ofProject(projectId) : []),
  ...ANYWHERE,
]

/** The entries that have all words that are typed: first those whose title begins so, then those with all in the title. */
export function matching(entries: readonly Entry[], typed: string): readonly Entry[] {
  const text = typed.trim().toLowerCase()
  const words = text.split(/\s+/)
  const has = (where: string) => words.every((word) => where.toLowerCase().includes(word))
  const rank = ({ title }: Entry): number => {
    if (title.toLowerCase().startsWith(text)) return 0
    return has(title) ? 1 : 2
  }
  return entries
    .filter(({ title, about }) => has(`${title} ${about}`))
    .toSorted((one, other) => rank(one) - rank(other))
}
