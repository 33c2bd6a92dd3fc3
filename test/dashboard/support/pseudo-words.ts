/** Tables of words whose texts have accents and are longer by 40 % at least, for tests of the layout. */
import type { Words } from '../../../dashboard/src/words/words.ts'

export { counted } from '../../../dashboard/src/words/words.ts'

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

const pseudo = (words: Words): Words =>
  Object.fromEntries(
    Object.entries(words).map(([name, word]) => {
      if (typeof word === 'string') return [name, longer(word)]
      if (typeof word === 'function') return [name, (...values: never[]) => longer(word(...values))]
      return [name, pseudo(word)]
    }),
  )

export const words = <Table extends Words>(table: Table): Table => pseudo(table) as Table
