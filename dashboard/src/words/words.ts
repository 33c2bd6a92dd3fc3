/** Helpers for the tables of words. */

/** Whether the pseudo-locale is on: texts with accents, longer by 40 % at least, for tests of the layout. */
const isPseudo = (): boolean => {
  try {
    return localStorage.pseudo === 'on'
  } catch {
    // Storage is blocked.
    return false
  }
}

const ACCENTS: { readonly [letter: string]: string } = {
  a: 'åå',
  e: 'éé',
  i: 'îî',
  o: 'øø',
  u: 'ûû',
  n: 'ñ',
  A: 'Å',
  E: 'É',
}

const longer = (text: string): string =>
  `[${text.replace(/[aeiounAE]/g, (letter) => ACCENTS[letter] ?? letter)}${'~'.repeat(Math.ceil(text.length * 0.2))}]`

type Words = { readonly [name: string]: string | ((...values: never[]) => string) | Words }

const pseudo = (words: Words): Words =>
  Object.fromEntries(
    Object.entries(words).map(([name, word]) => {
      if (typeof word === 'string') return [name, longer(word)]
      if (typeof word === 'function') return [name, (...values: never[]) => longer(word(...values))]
      return [name, pseudo(word)]
    }),
  )

/** A table of words: texts, and functions that return texts. */
export const words = <Table extends Words>(table: Table): Table => (isPseudo() ? (pseudo(table) as Table) : table)

const rules = new Intl.PluralRules('en')

/** `1 request`, `2 requests`. */
export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${count.toLocaleString()} ${rules.select(count) === 'one' ? one : many}`
