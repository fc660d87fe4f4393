//===- PageTables.h - tables of screens on pages --------------------------===//

#ifndef KERF_LIB_REPORT_PAGETABLES_H
#define KERF_LIB_REPORT_PAGETABLES_H

#include "kerf/Report/Report.h"
#include "kerf/Support/Page.h"

namespace kerf::report {

inline std::string tableOf(const Table &table, bool hasHeading) {
  return page::table(table.rows, table.align, hasHeading);
}

/// The table with a first row; none where it is empty.
inline Table withHeading(Table table, std::vector<std::string> heading) {
  if (!table.rows.empty())
    table.rows.insert(table.rows.begin(), std::move(heading));
  return table;
}

} // namespace kerf::report

#endif // KERF_LIB_REPORT_PAGETABLES_H
