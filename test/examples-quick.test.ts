/** The examples that need nothing, in the quick lane. */
import { QUICK, testExample } from './support/examples.ts'

for (const name of QUICK) testExample(name)
