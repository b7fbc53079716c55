// Lints the OpenAPI document of the HTTP API for generators and other programs: usage: lint.mjs FILE. Prints what the
// recommended rules find, and fails if there is anything, also a warning.
import {createConfig, lint} from '@redocly/openapi-core';

const config = await createConfig({
  extends: ['recommended'],
  // A route that anyone may ask for, without parameters, refuses nobody.
  rules: {'operation-4xx-response': 'off'},
});
const problems = await lint({ref: process.argv[2], config});
for (const {severity, ruleId, message, location} of problems) {
  console.log(`${process.argv[2]}${location[0]?.pointer}: ${severity}: ${message} (${ruleId})`);
}
process.exitCode = problems.length ? 1 : 0;
