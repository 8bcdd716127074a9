// Azurite's blob service, ended when its parent is gone: the parent holds the other end of stdin.
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
require("azurite/dist/src/blob/main.js");
