/** What pages use beside their text. The package contains these texts instead of this module. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const HERE = import.meta.dirname

export const icon: string = readFileSync(join(HERE, 'icon.svg'), 'utf8')
/** Only tests import from it. */
export const finder: string = readFileSync(join(HERE, 'find.js'), 'utf8').replaceAll(/^export /gm, '')
export const style: string = [join(HERE, '..', 'src', 'tokens.css'), join(HERE, 'site.css')]
  .map((file) => readFileSync(file, 'utf8'))
  .join('\n')
