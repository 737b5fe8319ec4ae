import { Type } from 'typebox'

/** Texts by name. The pattern of `Type.String()` alone leaves the values of names with line breaks unchecked. */
export const TextMap = Type.Record(Type.String({ pattern: '[^]*' }), Type.String())
