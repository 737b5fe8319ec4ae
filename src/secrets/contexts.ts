/* The contexts that bind each sealed text to its row: it opens in no other. */

/** The context of a role's password, also in the branches that inherit it. */
export const passwordContext = (role: string): string => `role ${role}`

/** The context of a webhook's secret. @param id as the catalog writes it */
export const webhookSecretContext = (id: string): string => `webhook ${id}`

/** The context of a reply that is stored for an `Idempotency-Key`. */
export const replyContext = (of: { accountId: string; method: string; path: string; key: string }): string =>
  `reply ${of.accountId} ${of.method} ${of.path} ${of.key}`
