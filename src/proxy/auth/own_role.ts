/** Whether a role is one of Neap's own, which are in every compute. Clients cannot log in as them. */
export const isOwnRole = (role: string): boolean => role.startsWith('neap_')
