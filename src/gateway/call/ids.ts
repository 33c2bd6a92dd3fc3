import type { World } from '../../core/world.ts'

/** Random lowercase letters for an ID. IDs have no digits, because some clients mistake digits for an HTTP status. */
export const randomLetters = (world: Pick<World, 'random'>, length: number): string => {
  let letters = ''
  for (let count = 0; count < length; count++) letters += ALPHABET[Math.floor(world.random() * 26)] ?? ''
  return letters
}

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz'
