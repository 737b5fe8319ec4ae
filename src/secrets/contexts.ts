/* What binds each sealed text to the row that it stands in: it opens in no other. */

/** Of a role's password: also in the branches that inherit it. */
export const passwordContext = (role: string): string => `role ${role}`

/** Of a webhook's secret. @param id as the catalog writes it */
export const webhookSecretContext = (id: string): string => `webhook ${id}`

/** Of a reply that is kept for an `Idempotency-Key`. */
export const replyContext = (of: { accountId: string; method: string; path: string; key: string }): string =>
  `reply ${of.accountId} ${of.method} ${of.path} ${of.key}`
