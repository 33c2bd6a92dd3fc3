/** Helpers for the tables of words. */

export type Words = { readonly [name: string]: string | ((...values: never[]) => string) | Words }

/** A table of words: texts, and functions that return texts. `dashboard/inline-words.ts` puts them where they are used. */
export const words = <Table extends Words>(table: Table): Table => table

const rules = new Intl.PluralRules('en')

/** `1 request`, `2 requests`. */
export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${count.toLocaleString()} ${rules.select(count) === 'one' ? one : many}`
