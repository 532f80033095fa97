# SPDX-License-Identifier: Apache-2.0
# ndstatus.mc -> ndstatus.h: awk -f ms_status.awk ndstatus.mc. GNU windmc refuses messages without a text.
BEGIN { severity["Success"] = 0; severity["Informational"] = 1; severity["Warning"] = 2; severity["Error"] = 3 }
{ sub(/\r$/, "") }
/^;/ { sub(/^;/, ""); print; next }
/^MessageId=/ {
  for (i = 1; i <= NF; i++) { split($i, pair, "="); value[pair[1]] = pair[2] }
  id = value["MessageId"]; sub(/^0x/, "", id)
  printf "#define %-28s ((HRESULT)0x%X000%sL)\n", value["SymbolicName"], severity[value["Severity"]] * 4, id
}
