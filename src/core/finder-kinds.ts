/** Personal data and secrets that the gateway finds in texts, by their names in settings. */

/** Found unless the settings say otherwise. */
export const COMMON_KINDS = ['email', 'phone', 'card', 'iban', 'apiKey'] as const

/** All kinds. The further ones are numbers of persons in the USA, the United Kingdom, Spain, Germany and France. */
export const FINDER_KINDS = [...COMMON_KINDS, 'ssn', 'nino', 'nif', 'steuerid', 'insee'] as const

export type FinderKind = (typeof FINDER_KINDS)[number]
